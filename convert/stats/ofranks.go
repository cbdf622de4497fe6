package stats

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/stats/internal/ranks"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// waitedColumns are the columns of what a rank waited for others in collectives, and others for it.
type waitedColumns struct {
	// time that this process waited for others in `collectives`; `null` where none of its collectives is there
	Waited *uint64 `key:"waited_ns" title:"waited for others" rank:"1"`
	// time that all others together waited in the collectives of its [steady state](findings.md#start-up-and-steady-state)
	// in which it came last
	Awaited *uint64 `key:"awaited_ns" title:"others waited" rank:"1"`
	// its part of the `awaited_ns` of all ranks of the run
	Share *float64 `key:"waited_for_share" title:"of all" rank:"2"`
	// collectives that were compared, and those of its steady state in which it came last
	Collectives *uint64 `key:"collectives"`
	Last        *uint64 `key:"last"` // =
}

func waitedOf(w ranks.Waits) waitedColumns {
	if !w.Known {
		return waitedColumns{}
	}
	return waitedColumns{&w.Waited, &w.Awaited, table.ShareOf(w.Awaited, w.All), &w.Collectives, &w.Last}
}

// loads are what each process did on each GPU in its steady state.
func (s *Sink) loads() (all []ranks.Load) {
	counts := make(map[*timeline.Process]uint64) // of steps of the steady state
	for _, k := range s.steps.Main() {
		counts[k.Process] = uint64(len(k.Parts) - s.starting(k))
	}
	for _, d := range s.busy.sorted() {
		if d.Late > 0 {
			continue
		}
		for _, p := range d.Parts {
			during := s.findings.Steady(p.Process)
			until, known := p.Until(during.From)
			if p.First >= p.Last || !known {
				continue
			}
			m := p.Times().Until(p.Last).Less(until)
			all = append(all, ranks.Load{
				RankProcess: s.ranks.Process(p.Process), GPU: d.index, Compute: m.Compute, Exposed: m.Exposed(),
				Span: during.To - during.From, From: during.From, First: p.First, Last: p.Last, Steps: counts[p.Process],
			})
		}
	}
	return all
}

var ranksReport = Report{
	Name: "ranks", Title: "processes on their GPUs: compute, communication and copies", OfRanks: true,
	needs: gpuWork, whyEmpty: "no GPU work",
	table: func(s *Sink, f Facts) *table.Table { return s.rankTable(f.Startup) },
}

// RankCells is a row of ranks.
type RankCells struct {
	Name        string  `key:"name" title:"process"`
	PID         uint32  `key:"pid" title:"PID" rank:"6" unit:"id"`
	Host        string  `key:"host" title:"host" rank:"7"`
	GPU         uint32  `key:"gpu" title:"GPU" rank:"1" unit:"id"`
	Rank        *uint32 `key:"rank" unit:"id"`
	busyColumns         // as in `devices`
	// time with kernels other than communication under way
	Compute     *uint64 `key:"compute_ns" title:"compute" rank:"1"`
	Communicate *uint64 `key:"communication_ns" title:"communication" rank:"5"`        // as in `devices`
	Overlap     *uint64 `key:"communication_overlap_ns" title:"with compute" rank:"6"` // as in `devices`
	// `communication_ns` less `communication_overlap_ns`: the GPU communicates and computes nothing
	Exposed *uint64 `key:"exposed_ns" title:"exposed" rank:"1"`
	Copies  *uint64 `key:"copy_ns" title:"copying" rank:"4"` // as in `devices`
	waitedColumns

	of *timeline.Process
}

// rankTable returns the report of what each process did on each GPU.
func (s *Sink) rankTable(startup bool) *table.Table {
	late, rows := uint64(0), []RankCells{}
	for _, d := range s.busy.sorted() {
		late += d.Late
		for _, p := range d.Parts {
			if p.First > p.Last {
				continue
			}
			m, from := s.during(d, []*activity.Part{p}, startup)
			x := RankCells{
				Name: p.Process.Name, PID: p.Process.PID, Host: p.Process.Host, GPU: d.index,
				Rank: p.Process.Rank.Nullable(), of: p.Process,
				busyColumns:   s.busy.columns(m.Busy, from, p.Last, d.Late == 0),
				waitedColumns: waitedOf(s.ranks.Waits(s.ranks.Process(p.Process))),
			}
			if d.Late == 0 {
				x.Compute, x.Communicate, x.Overlap = &m.Compute, &m.Communication, &m.CommunicationOverlap
				x.Exposed, x.Copies = new(m.Exposed()), &m.Copies
			}
			rows = append(rows, x)
		}
	}
	slices.SortStableFunc(rows, func(a, b RankCells) int {
		return cmp.Or(a.of.Rank.Compare(b.of.Rank), cmp.Compare(a.PID, b.PID))
	})
	t := table.Of(rows)
	t.SetRank(5, "idle_ns")
	t.SetRank(4, "busy_share")
	t.SetRank(3, "busy_ns")
	if slices.ContainsFunc(rows, func(r RankCells) bool { return r.Rank == nil }) {
		t.SetRank(1, "pid")
	}
	if !slices.ContainsFunc(rows, func(r RankCells) bool { return r.Waited != nil }) {
		t.SetRank(8, "waited_ns", "awaited_ns", "waited_for_share")
	}
	t.Notes = note(late, "busy times")
	return t
}

var collectivesReport = Report{
	Name: "collectives", Title: "NCCL by communicator: who comes last, and how long the others wait",
	kernels: true,
	OfRanks: true,
	needs:   gpuWork, whyEmpty: "no collectives of NCCL that several ranks of the logs run together",
	table: func(s *Sink, f Facts) *table.Table { return f.togetherOf(s.ranks.Collectives()) },
}

var lateCollectivesReport = Report{
	Name: "late_collectives", Title: "the collectives in which ranks waited longest", Detail: true, OfRanks: true,
	kernels: true,
	needs:   gpuWork, whyEmpty: "no rank is known to have waited in a collective",
	table: func(s *Sink, _ Facts) *table.Table { return s.ranks.Worst() },
}

var messageSizesReport = Report{
	Name: "message_sizes", Title: "NCCL's collectives by size, with the bandwidths of nccl-tests",
	OfRanks: true,
	needs:   gpuWork, whyEmpty: "no collectives of NCCL",
	table: func(s *Sink, _ Facts) *table.Table { return s.ranks.MessageSizes() },
}

var stepsReport = Report{
	Name: "steps", Title: "steps, and what they are made of", Detail: true,
	table: func(s *Sink, f Facts) *table.Table { return s.stepTable(!f.Chosen) },
}

// StepCells is a row of steps.
type StepCells = ranks.StepCells

// togetherOf adds to the reason why collectives of several ranks were not put together what the recording lacks.
func (f Facts) togetherOf(t *table.Table) *table.Table {
	if t.Reason == "" {
		return t
	}
	if f.Filtered {
		t.Reason += "; a filter selects a part of the logs"
	}
	if f.Broken != "" {
		t.Reason += "; " + f.Broken
	}
	return t
}
