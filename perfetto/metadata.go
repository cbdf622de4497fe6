package perfetto

// A Fact is a row of the trace's metadata.
type Fact struct{ Name, Value string }

// Metadata writes facts about the trace, or about one of several parts of it. The trace processor shows
// them in its table "metadata", under their names with "cr-" in front; those of a second call with "cr-2-", and so on.
func (w *Writer) Metadata(facts []Fact) {
	if len(facts) == 0 {
		return
	}
	b := w.common.begin()
	bundle := b.open(packetChromeEvents)
	for _, f := range facts {
		fact := b.open(bundleMetadata)
		b.text(metadataName, f.Name)
		b.text(metadataText, f.Value)
		b.close(fact)
	}
	b.close(bundle)
	w.common.end()
}
