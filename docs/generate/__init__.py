"""Pages that are written from the code whenever the site is built, so that they cannot be out of date."""
