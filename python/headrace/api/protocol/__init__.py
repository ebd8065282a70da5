"""The wire formats of AWS, driven by the service models.

shapes    a service's operations and shapes, read from the pruned model
reading   values of a request by their shape, checked: what each kind of service refuses how
query     ec2 and query requests: parameters named `Filter.1.Value.2`
documents awsJson and CBOR requests and answers
rest      rest-json: members in the path, the query, headers and the body
xml       answers of ec2 and query
wire      which service, operation and protocol a request is in; answers and errors in it
"""
