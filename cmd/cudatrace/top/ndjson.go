package top

import (
	"encoding/json"
	"io"
	"math"
	"time"

	"github.com/cudatrace/cudatrace/convert/live"
)

// The JSON of a report: docs/top.md documents it. A member of a later version that a reader does not
// know does not matter to it.
type jsonReport struct {
	Version   int          `json:"version"`
	Time      string       `json:"time"` // RFC 3339, UTC; "" where the log has no clock
	From      uint64       `json:"from_ns"`
	To        uint64       `json:"to_ns"`
	Now       live.Figures `json:"now"`
	All       live.Figures `json:"all"`
	GPUs      []jsonGPU    `json:"gpus"`
	Pinned    uint64       `json:"pinned_bytes"`
	Copies    []live.Row   `json:"copies"`
	Kernels   []live.Row   `json:"kernels"`
	Functions []live.Row   `json:"functions"`
	Lines     []live.Row   `json:"lines"`
	Errors    []live.Row   `json:"errors"`
	Losses    []live.Row   `json:"losses"`
}

type jsonGPU struct {
	Index  uint32  `json:"gpu"`
	Name   string  `json:"name"`
	Busy   uint64  `json:"busy_ns"`
	All    uint64  `json:"all_busy_ns"`
	Queue  float64 `json:"queue"`
	Memory uint64  `json:"memory_bytes"`
	Peak   uint64  `json:"peak_memory_bytes"`

	live.Sensors // null where it is not known

	Thread string      `json:"idle_thread"` // "" if it is not known
	Idle   []live.Idle `json:"idle_by"`
}

// maxJSONRows is the most rows of a table in a line.
const maxJSONRows = 20

// writeJSON writes a report as a line of JSON.
func writeJSON(w io.Writer, r *live.Report) error {
	j := jsonReport{Version: 1, From: r.From, To: r.To,
		Now: r.Now, All: r.All, GPUs: []jsonGPU{}, Pinned: r.Host.Live,
		Copies: jsonRows(r.Copies), Kernels: jsonRows(r.Kernels), Functions: jsonRows(r.Functions), Lines: jsonRows(r.Lines),
		Errors: jsonRows(r.Errors), Losses: jsonRows(r.Losses)}
	if !r.Time.IsZero() {
		j.Time = r.Time.UTC().Format(time.RFC3339Nano)
	}
	for _, g := range r.GPUs {
		idle, thread := []live.Idle{}, ""
		for _, part := range g.Idle {
			part.Share = math.Round(1000*part.Share) / 1000
			idle = append(idle, part)
		}
		if g.Thread != nil {
			thread = threadText(g.Thread)
		}
		j.GPUs = append(j.GPUs, jsonGPU{
			g.Index, g.Name, g.Busy, g.All, g.Queue, g.Memory.Live, g.Memory.Peak, g.Sensors, thread, idle,
		})
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // names of kernels have < and >
	return enc.Encode(j)
}

// jsonRows returns the first rows, never nil.
func jsonRows(rows []live.Row) []live.Row {
	return append([]live.Row{}, rows[:min(len(rows), maxJSONRows)]...)
}
