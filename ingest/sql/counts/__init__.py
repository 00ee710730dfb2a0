"""What is counted of all that there is: for status, reports, and how long something waits."""
