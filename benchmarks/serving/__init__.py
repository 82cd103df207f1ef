"""What `discorank serve` costs and survives, before a scripted server, at loopback."""
