"""What the charts of a report show: each file chooses the values of one chart and says what they show."""
