"""Components that pages share: HTML, CSS and JavaScript of our own."""
