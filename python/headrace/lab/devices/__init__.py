"""What is read from the device of a volume.

nvme          the statistics page of an NVMe device
initializing  every block that is not loaded from its snapshot yet
"""
