"""The edits that findings offer, and their words."""
