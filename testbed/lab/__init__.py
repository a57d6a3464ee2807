"""What runs the labs: tasks with points, a student's programs in confinement, and what is shown of a failure."""
