"""Groups of the consumer protocol (KIP-848): the coordinator shares out, and each member is told its part."""
