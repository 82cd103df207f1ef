"""What Ray costs and what a large run would take."""
