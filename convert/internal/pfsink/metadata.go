package pfsink

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
)

// metadata writes what is known of a log to the trace's metadata.
func (s *Sink) metadata(m *timeline.Metadata) {
	var facts []perfetto.Fact
	for _, f := range m.Facts() {
		facts = append(facts, perfetto.Fact{Name: f.Name, Value: f.Text})
	}
	s.w.Metadata(facts)
}

// gpuFacts are the properties of a GPU: name, value, name, value ...
func gpuFacts(g *timeline.GPU) (extra []string) {
	for _, f := range g.Facts() {
		extra = append(extra, f.Name, f.Text)
	}
	return extra
}
