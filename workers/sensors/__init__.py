"""The sensors: what the box can be asked of heat, power and load, and which of it can be believed."""
