"""What the charts of a report show: the values of each chart, and sentences about them."""
