"""`coterie init`: a folder for each host with all that its node needs, and a page that says what to do with them."""
