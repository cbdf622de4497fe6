package perfetto

// A template is the common part of a [TrackEventTemplate] and a [RenderStageTemplate].
type template struct {
	fields []byte      // encoded fields of the event
	refs   []stringRef // interned strings that the fields refer to
	id     uint32      // differs from content to content; 0 without content
}

// reset empties a template and returns its memory for new fields.
func (t *template) reset(w *Writer) (fields buffer) {
	w.templates++
	t.refs, t.id = t.refs[:0], w.templates
	return buffer{t.fields[:0]}
}

// recentTemplates is the number of templates that a sequence remembers: all strings of
// these templates are interned.
const recentTemplates = 128

// internTemplate interns the strings of a template.
func (s *sequence) internTemplate(t *template) {
	if recent := &s.templates[t.id%recentTemplates]; *recent != t.id {
		s.internStrings(t.refs)
		*recent = t.id
	}
}
