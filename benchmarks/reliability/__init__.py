"""What kills, damage and their prevention cost and do."""
