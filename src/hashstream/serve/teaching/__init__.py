"""For the Teach and Map views of the page: what to label next, how well answers become, where codes lie."""
