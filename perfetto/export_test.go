package perfetto

// TraceText returns a trace in a form like protobuf's text format.
var TraceText = traceText
