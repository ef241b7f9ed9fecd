"""Program texts for a reader: fold, search, compare."""
