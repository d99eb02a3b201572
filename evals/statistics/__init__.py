"""What a study's scores say together: means with intervals, ranks, and differences that are no chance."""
