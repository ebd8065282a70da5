"""Exports metrics of watched targets: to Prometheus, OpenTelemetry, Grafana and as alert rules."""
