"""Tables, charts and pages made from results. Nothing here runs a simulation or a plan."""
