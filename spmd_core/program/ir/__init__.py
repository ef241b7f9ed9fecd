"""Program texts for a viewer: fold, search, compare."""
