"""The answers for a fleet, as tables, as a page, and savings against risk as a chart.

words   sums, columns and rows
chart   savings against risk
page    one page in a file
"""
