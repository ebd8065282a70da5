"""Exports metrics of watched targets to other programs: Prometheus, OpenTelemetry, Grafana, alert
rules.

table       the metrics and their names (metrics.csv)
samples     the samples of each metric, from moments
prometheus  the text that is scraped
lab         the text of a lab, and the process that serves it
serving     targets followed in threads, and the text served
otlp        the same for a collector of OpenTelemetry
grafana     the dashboard
alerts      alert rules (alerts.csv)
"""
