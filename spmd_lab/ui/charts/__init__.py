"""Charts that several screens draw."""
