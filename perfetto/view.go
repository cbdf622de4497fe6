package perfetto

import "encoding/json"

// A View is what a viewer should show of a trace at first. It stands in the trace's metadata, as the fact "view" in
// JSON: who opens the trace has nothing else. Times are those of the trace's clock, in ns.
type View struct {
	Start uint64   `json:"start"` // of the recording: times that people write count from here
	From  uint64   `json:"from"`
	To    uint64   `json:"to"`
	Pins  []string `json:"pins,omitempty"` // JavaScript regular expressions of names of tracks
	Notes []Note   `json:"notes,omitempty"`
}

// A Note is a mark on the time axis. The UI draws 16 characters of the first line of its text, and all of it on a
// click.
type Note struct {
	At   uint64 `json:"at"`
	Text string `json:"text"`
}

// ViewFact is the name of the fact that has the View.
const ViewFact = "view"

// View writes a view.
func (w *Writer) View(v View) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and texts have a form in JSON
	}
	w.Metadata([]Fact{{ViewFact, string(text)}})
}
