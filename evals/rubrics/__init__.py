"""What people score: rubrics, the items that they are shown, and what their scores come to."""
