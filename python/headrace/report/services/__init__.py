"""A database on EC2, RDS and Aurora: the comparison in words, as tables, rows, JSON and a page.
Takes results; runs nothing.

words  sentences, tables and rows
page   the chart and the page
"""
