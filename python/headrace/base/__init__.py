"""The ground of the package: modules that all other rooms use."""
