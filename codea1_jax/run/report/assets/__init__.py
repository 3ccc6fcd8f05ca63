"""The page: one HTML frame, and the style sheets and scripts that are put into it."""
