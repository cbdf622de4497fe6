package perfetto

// A template is the common part of a [TrackEventTemplate] and a [RenderStageTemplate].
type template struct {
	last   lastPacket  // in front: a patch reads nothing else
	fields []byte      // encoded fields of the event
	refs   []stringRef // interned strings that the fields refer to
	id     uint32      // differs from content to content; 0 without content
	used   bool        // by an event
}

// reset empties a template and returns its memory for new fields.
func (t *template) reset(w *Writer) (fields buffer) {
	w.templates++
	t.last.sequence = nil
	t.refs, t.id, t.used = t.refs[:0], w.templates, false
	return buffer{t.fields[:0]}
}

// save keeps a packet for patching, but not the first one: most templates that are used
// twice are used often, and some are used once.
func (t *template) save(s *bufferedSequence, last *UintArgs, v *patchValues, packet []byte, ends *[maxPatched]int) {
	if t.used {
		t.last.save(s, last, v, packet, ends)
	}
	t.used = true
}

// recentTemplates is the number of templates that a sequence remembers: all strings of
// these templates are interned.
const recentTemplates = 128

// internTemplate interns the strings of the template with an id.
func (s *sequence) internTemplate(id uint32, refs []stringRef) {
	if recent := &s.templates[id%recentTemplates]; *recent != id {
		s.internStrings(refs)
		*recent = id
	}
}
