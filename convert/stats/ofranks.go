package stats

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/ranks"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// ranked is a row of a process.
type ranked struct {
	process *timeline.Process
	row     []any
}

// waitCells are the cells of what a rank waited for others in collectives, and others for it.
func waitCells(w ranks.Waits) []any {
	if !w.Known {
		return make([]any, 5)
	}
	return []any{w.Waited, w.Awaited, table.ShareOf(w.Awaited, w.All), w.Collectives, w.Last}
}

// loads are what each process did on each GPU in its steady state.
func (b *busy) loads(c *ranks.Collector, steady func(*timeline.Process) findings.Interval) (all []ranks.Load) {
	for _, d := range b.sorted() {
		if d.Late > 0 {
			continue
		}
		for _, p := range d.Parts {
			during := steady(p.Process)
			until, known := p.Until(during.From)
			if p.First >= p.Last || !known {
				continue
			}
			m := p.Times().Until(p.Last).Less(until)
			all = append(all, ranks.Load{Process: c.Process(p.Process), GPU: d.index, Compute: m.Compute, Exposed: m.Exposed(), Span: during.To - during.From, From: during.From, First: p.First, Last: p.Last})
		}
	}
	return all
}

var ranksReport = Report{
	Name: "ranks", Title: "processes on their GPUs: compute, communication and copies", OfRanks: true,
	needs: gpuWork, whyEmpty: "no GPU work",
	table: func(s *Sink, _ Facts) *table.Table { return s.busy.rankTable(s.ranks) },
	Keys: []Key{
		{"name, pid, host, gpu, rank", ""},
		{"busy_ns, idle_ns, busy_share, span_ns, first_ns, last_ns", "as in `devices`"},
		{"compute_ns", "time with kernels other than communication under way"},
		{"communication_ns, communication_overlap_ns, copy_ns", "as in `devices`"},
		{"exposed_ns", "`communication_ns` less `communication_overlap_ns`: the GPU communicates and computes nothing"},
		{"waited_ns", "time that this process waited for others in `collectives`; `null` where none of its collectives is there"},
		{"awaited_ns", "time that all others together waited in the collectives of its [steady state](findings.md#start-up-and-steady-state) in which it came last"},
		{"waited_for_share", "its part of the `awaited_ns` of all ranks of the run"},
		{"collectives, last", "collectives that were compared, and those of its steady state in which it came last"},
	},
}

// rankTable returns the report of what each process did on each GPU.
func (b *busy) rankTable(c *ranks.Collector) *table.Table {
	t := new(table.Table)
	t.Columns = slices.Concat([]table.Column{name("process"), id("pid", "number", 6), column("host", "host", table.Text, 7), id("gpu", "GPU", 1), id("rank", "", 0)}, busyColumns(),
		[]table.Column{duration("compute_ns", "compute", 1), duration("communication_ns", "communication", 5),
			duration("communication_overlap_ns", "with compute", 6), duration("exposed_ns", "exposed", 1), duration("copy_ns", "copying", 4),
			duration("waited_ns", "waited", 1), duration("awaited_ns", "awaited", 1), column("waited_for_share", "of all", table.Share, 2), count("collectives", "", 0), count("last", "", 0)})
	late, ranks := uint64(0), []ranked{}
	for _, d := range b.sorted() {
		late += d.Late
		for _, p := range d.Parts {
			if p.First > p.Last {
				continue
			}
			m, more := p.Times(), make([]any, 5)
			if d.Late == 0 {
				more = []any{m.Compute(), m.Communication(), m.CommunicationOverlap(), m.Communication() - m.CommunicationOverlap(), m.Copies()}
			}
			var rank any
			if p.Process.Rank.Known {
				rank = uint64(p.Process.Rank.Number)
			}
			ranks = append(ranks, ranked{p.Process, slices.Concat([]any{p.Process.Name, uint64(p.Process.PID), text(p.Process.Host), uint64(d.index), rank},
				b.busyCells(m.Busy(), p.First, p.Last, d.Late == 0), more, waitCells(c.Waits(c.Process(p.Process))))})
		}
	}
	slices.SortStableFunc(ranks, func(a, b ranked) int {
		return cmp.Or(a.process.Rank.Compare(b.process.Rank), cmp.Compare(a.process.PID, b.process.PID))
	})
	ranked, waits := true, false
	for _, r := range ranks {
		t.Rows = append(t.Rows, r.row)
		ranked = ranked && r.process.Rank.Known
		waits = waits || r.row[t.Column("waited_ns")] != nil
	}
	for key, rank := range map[string]int{"idle_ns": 5, "busy_share": 4, "busy_ns": 3} {
		t.Columns[t.Column(key)].Rank = rank
	}
	if !ranked {
		t.Columns[t.Column("pid")].Rank = 1
	}
	if !waits {
		for _, key := range []string{"waited_ns", "awaited_ns", "waited_for_share"} {
			t.Columns[t.Column(key)].Rank = 8
		}
	}
	t.Notes = note(late, "busy times")
	return t
}

var collectivesReport = Report{
	Name: "collectives", Title: "collectives of NCCL by communicator: who comes last, and how long the others wait", OfRanks: true,
	needs: gpuWork, whyEmpty: "no collectives of NCCL that several ranks of the logs run together",
	table: func(s *Sink, f Facts) *table.Table { return f.togetherOf(s.ranks.Collectives()) },
	Keys: []Key{
		{"name", ""},
		{"communicator", "[NCCL's hash](nvtx.md#nccl) in hexadecimal; where NCCL does not tell it, a number of this report alone, which another filter changes"},
		{"ranks, members", "the ranks, `0-7`, and their number"},
		{"count", ""},
		{"total_ns", "time of the kernels on all ranks together"},
		{"min_ns, median_ns, p95_ns, max_ns", "times of the kernels that were compared"},
		{"wait_ns, wait_share", "time that all ranks together waited, and its part of `total_ns`"},
		{"wait_median_ns, wait_p95_ns, wait_max_ns", "times that a rank waited"},
		{"last_rank, waited_for_share", "the rank for which the others waited longest, and its part of the waiting, of collectives whose last rank is known and in its steady state: the figures of [`straggling_rank`](findings.md#straggling_rank-straggling_host)"},
		{"last_share, late_median_ns", "its part of those that are no ties; the median of how much it came after all others in these, as far as no error of the clocks explains it"},
		{"compared", "collectives that were compared; of very many a sample, as a note says: waits are then estimates for all"},
		{"uncertain", "collectives whose last rank is not known"},
		{"ties", "collectives whose last rank came later by less than half of the communicator's mean in the steady state: chance decides who is last in most collectives of a step"},
		{"starting", "collectives whose last rank was in its [start-up](findings.md#start-up-and-steady-state): they count neither as ties nor for `last_rank`"},
	},
}

var lateCollectivesReport = Report{
	Name: "late_collectives", Title: "the collectives in which ranks waited longest", Detail: true, OfRanks: true,
	needs: gpuWork, whyEmpty: "no rank is known to have waited in a collective",
	table: func(s *Sink, _ Facts) *table.Table { return s.ranks.Worst() },
	Keys: []Key{
		{"name, communicator", "as in `collectives`"},
		{"at_ns", "start of the first rank's kernel"},
		{"members", "ranks whose logs have their part"},
		{"wait_ns, wait_max_ns", "time that all ranks together waited, and the longest wait"},
		{"last_rank, late_ns", "the last rank, and by how much after all others"},
	},
}

var messageSizesReport = Report{
	Name: "message_sizes", Title: "collectives of NCCL by the size of their messages, with the bandwidths of nccl-tests", OfRanks: true,
	needs: gpuWork, whyEmpty: "no collectives of NCCL",
	table: func(s *Sink, _ Facts) *table.Table { return s.ranks.MessageSizes() },
	Keys: []Key{
		{"name", "the operation"},
		{"members", "ranks of the communicator, as NCCL or else the logs tell; `null` for kernels that are not put together across ranks: there the kernels of every rank count"},
		{"min_bytes, max_bytes", "smallest and largest message of the row"},
		{"count", ""},
		{"bytes", "sum of the messages"},
		{"measured", "collectives whose time is known; of very many a sample"},
		{"median_ns", "time of the kernel of the rank that entered last, which waited for nobody; where it is uncertain who did, of the shortest kernel"},
		{"algbw_gbps", "size per time, GB/s, in the median: *S* / *t*"},
		{"busbw_gbps", "`algbw_gbps` times a factor that makes it comparable with the links' bandwidth"},
	},
}

var stepsReport = Report{
	Name: "steps", Title: "steps, and what they are made of", Detail: true,
	table: func(s *Sink, f Facts) *table.Table { return s.stepTable(!f.Chosen) },
	Keys: []Key{
		{"name, number", "the step"},
		{"count", "ranks that have it"},
		{"at_ns", "when the first rank began it"},
		{"min_ns, median_ns, max_ns, spread_ns", "durations over the ranks; `spread_ns` is `max_ns` less `min_ns`"},
		{"slowest_rank", "the rank with `max_ns`"},
		{"last_rank, late_ns", "the last rank, and by how much after all others"},
		{"ranks, durations_ns", "lists: the ranks, and the step's duration on each"},
		{"compute_ns, exposed_ns, copy_ns, idle_ns, pid", "as in `step_kinds`, of the slowest rank's process"},
	},
}

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
