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
	Version   int         `json:"version"`
	Time      string      `json:"time"` // RFC 3339, UTC; "" where the log has no clock
	From      uint64      `json:"from_ns"`
	To        uint64      `json:"to_ns"`
	Now       jsonFigures `json:"now"`
	All       jsonFigures `json:"all"`
	GPUs      []jsonGPU   `json:"gpus"`
	Pinned    uint64      `json:"pinned_bytes"`
	Copies    []jsonRow   `json:"copies"`
	Kernels   []jsonRow   `json:"kernels"`
	Functions []jsonRow   `json:"functions"`
	Lines     []jsonRow   `json:"lines"`
	Errors    []jsonRow   `json:"errors"`
	Losses    []jsonRow   `json:"losses"`
}

type jsonFigures struct {
	Calls    uint64 `json:"calls"`
	CallTime uint64 `json:"call_ns"`
	Launches uint64 `json:"launches"`
	Failed   uint64 `json:"failed"`
	Kernels  uint64 `json:"kernels"`
	Copies   uint64 `json:"copies"`
	Memsets  uint64 `json:"memsets"`
	GPUTime  uint64 `json:"gpu_ns"`
	Lost     uint64 `json:"lost"`
}

type jsonGPU struct {
	Index  uint32  `json:"gpu"`
	Name   string  `json:"name"`
	Busy   uint64  `json:"busy_ns"`
	All    uint64  `json:"all_busy_ns"`
	Queue  float64 `json:"queue"`
	Memory uint64  `json:"memory_bytes"`
	Peak   uint64  `json:"peak_memory_bytes"`

	Power    *float64 `json:"power_w"` // null where it is not known
	SMClock  *float64 `json:"sm_clock_hz"`
	SMActive *float64 `json:"sm_active_percent"`

	Thread string     `json:"idle_thread"` // "" if it is not known
	IdleBy []jsonIdle `json:"idle_by"`
}

type jsonIdle struct {
	Text  string  `json:"text"`
	Share float64 `json:"share"`
}

type jsonRow struct {
	Name string    `json:"name"`
	Now  jsonCount `json:"now"`
	All  jsonCount `json:"all"`
}

type jsonCount struct {
	N     uint64 `json:"count"`
	Time  uint64 `json:"ns"`
	Bytes uint64 `json:"bytes"`
}

// maxJSONRows is the most rows of a table in a line.
const maxJSONRows = 20

// writeJSON writes a report as a line of JSON.
func writeJSON(w io.Writer, r *live.Report) error {
	j := jsonReport{Version: 1, From: r.From, To: r.To,
		Now: jsonFigures(r.Now), All: jsonFigures(r.All), GPUs: []jsonGPU{}, Pinned: r.Host.Live,
		Copies: jsonRows(r.Copies), Kernels: jsonRows(r.Kernels), Functions: jsonRows(r.Functions), Lines: jsonRows(r.Lines),
		Errors: jsonRows(r.Errors), Losses: jsonRows(r.Losses)}
	if !r.Time.IsZero() {
		j.Time = r.Time.UTC().Format(time.RFC3339Nano)
	}
	for _, g := range r.GPUs {
		by, thread := []jsonIdle{}, ""
		for _, part := range g.Idle {
			by = append(by, jsonIdle{part.What, math.Round(1000*part.Share) / 1000})
		}
		if g.Thread != nil {
			thread = threadText(g.Thread)
		}
		j.GPUs = append(j.GPUs, jsonGPU{
			g.Index, g.Name, g.Busy, g.All, g.Queue, g.Memory.Live, g.Memory.Peak, g.Power, g.SMClock, g.SMActive, thread, by,
		})
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // names of kernels have < and >
	return enc.Encode(j)
}

func jsonRows(rows []live.Row) []jsonRow {
	list := []jsonRow{}
	for _, r := range rows[:min(len(rows), maxJSONRows)] {
		list = append(list, jsonRow{r.Name, jsonCount(r.Now), jsonCount(r.All)})
	}
	return list
}
