package convert

// Categories of what is no call.
const (
	categoryNVTX   = "nvtx"
	categoryCUPTI  = "cupti"
	categoryMemory = "memory"
)

// overhead gives a process the track of what CUPTI and the driver took for
// themselves, and returns its sum in ns.
func (s *session) overhead() (total uint64) {
	if len(s.overheads) == 0 {
		return 0
	}
	spans := make([]Span, 0, len(s.overheads))
	for _, o := range s.overheads {
		sp := Span{Name: overheadName(o.Kind), Start: o.Start, End: end(o.Start, o.Dur)}
		if o.TID != 0 {
			sp.Args = []Detail{{Name: "thread", Value: uint64(o.TID)}}
		}
		spans = append(spans, sp)
		total += o.Dur
	}
	s.addTracks("CUPTI overhead", categoryCUPTI, spans)
	s.overheads = nil
	return total
}
