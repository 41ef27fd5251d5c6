"""Playing cases one after another and keeping what they gave."""
