package tptest

import (
	"fmt"
	"slices"
	"strings"
)

// Text shows a trace as people see it: its bounds; the tracks that belong to no process; each process
// with its threads by their first slice, and its other tracks in the UI's order; the queues of each
// GPU by name. A track has its slices, with their arguments and arrows, or its values; no more than
// most of them.
func Text(tr *Trace, most int) string {
	tr.t.Helper()
	x := &text{Trace: tr, most: most, children: make(map[any][]Row), slices: make(map[any][]Row),
		values: make(map[any][]Row), args: make(map[any][]string), arrows: make(map[any][]string)}
	x.read()
	for _, r := range tr.Query(`select start_ts, end_ts from trace_bounds`) {
		x.line(0, "bounds %v to %v", r["start_ts"], r["end_ts"])
	}
	x.tracks(0, nil)
	for _, p := range tr.Query(`select p.upid, p.pid, p.name, p.cmdline, q.pid as parent from process p left join process q on p.parent_upid = q.upid
		where p.pid > 0 and p.name is not null order by p.upid`) {
		x.process(p)
	}
	x.gpuCounters()
	x.queues()
	return x.b.String()
}

// A text is a trace that is being shown.
type text struct {
	*Trace
	most     int
	children map[any][]Row // tracks by their parent, or by "upid N" or "utid N" without one; nil without either
	slices   map[any][]Row // by track
	values   map[any][]Row // of counters, by track
	args     map[any][]string
	arrows   map[any][]string // by slice
	b        strings.Builder
}

func (x *text) line(indent int, format string, args ...any) {
	fmt.Fprintf(&x.b, strings.Repeat("  ", indent)+format+"\n", args...)
}

// read reads the trace's tables.
func (x *text) read() {
	for _, r := range x.Query(`include perfetto module viz.summary.track_event;
		select * from _track_event_tracks_ordered_groups where (has_data or has_children) and
		min_track_id not in (select id from track where type = 'thread_track_event') order by order_id`) {
		key := r["parent_id"]
		switch {
		case key != nil:
		case r["utid"] != nil:
			key = fmt.Sprint("utid ", r["utid"])
		case r["upid"] != nil:
			key = fmt.Sprint("upid ", r["upid"])
		}
		x.children[key] = append(x.children[key], r)
	}
	for _, r := range x.Query(`select * from slice order by ts, depth, id`) {
		x.slices[r["track_id"]] = append(x.slices[r["track_id"]], r)
	}
	for _, r := range x.Query(`select track_id, ts, value from counter order by ts, id`) {
		x.values[r["track_id"]] = append(x.values[r["track_id"]], r)
	}
	for _, r := range x.Query(`select arg_set_id, key, display_value from args where display_value is not null order by id`) {
		key := r["key"].(string)
		if !slices.ContainsFunc(ofGraphics, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			x.args[r["arg_set_id"]] = append(x.args[r["arg_set_id"]], fmt.Sprintf("%s=%v", strings.TrimPrefix(key, "debug."),
				r["display_value"]))
		}
	}
	for _, r := range x.Query(`select o.id as a, i.id as b, o.name as oname, o.ts as ots, i.name as iname, i.ts as its
		from flow join slice o on slice_out = o.id join slice i on slice_in = i.id order by i.ts, i.id, o.ts, o.id`) {
		x.arrows[r["a"]] = append(x.arrows[r["a"]], fmt.Sprintf("-> %v at %v", r["iname"], r["its"]))
		x.arrows[r["b"]] = append(x.arrows[r["b"]], fmt.Sprintf("<- %v at %v", r["oname"], r["ots"]))
	}
}

// ofGraphics are the beginnings of arguments that the trace processor adds to all GPU work, and of the
// IDs behind arrows.
var ofGraphics = []string{
	"render_", "command_buffer", "submission_id", "hw_queue_id", "upid", "context_id", "description", "gpu_correlation",
}

func (x *text) process(p Row) {
	line := fmt.Sprintf("process %v %q", p["pid"], fmt.Sprint(p["name"]))
	if p["cmdline"] != nil {
		line += fmt.Sprintf(" command %q", p["cmdline"])
	}
	if p["parent"] != nil {
		line += fmt.Sprint(" of ", p["parent"])
	}
	x.line(0, "%s", line)
	for _, th := range x.Query(fmt.Sprintf(`select utid, tid, thread.name, k.id, min(s.ts) as first from thread_track k join thread using (utid)
		left join slice s on s.track_id = k.id where upid = %v and
		k.type in ('thread_execution', 'thread_track_event') group by utid order by first, tid`, p["upid"])) {
		x.line(1, "thread %v %q", th["tid"], fmt.Sprint(th["name"]))
		x.sliceList(2, x.slices[th["id"]])
		x.tracks(2, fmt.Sprint("utid ", th["utid"]))
	}
	x.tracks(1, fmt.Sprint("upid ", p["upid"]))
}

// tracks shows the tracks under a parent.
func (x *text) tracks(indent int, parent any) {
	for _, r := range x.children[parent] {
		name := fmt.Sprintf("%q", fmt.Sprint(r["name"]))
		switch {
		case r["is_counter"] == int64(1):
			x.line(indent, "counter %s in %v: %s", name, r["unit"], x.samples(x.values[r["min_track_id"]]))
		case r["has_data"] == int64(0):
			x.line(indent, "group %s", name)
		default:
			x.line(indent, "track %s", name)
			var list []Row
			for id := range strings.SplitSeq(r["track_ids"].(string), ",") {
				list = append(list, x.slices[number(id)]...)
			}
			x.sliceList(indent+1, list)
		}
		x.tracks(indent+1, r["min_track_id"])
	}
}

// gpuCounters shows the sampled counters of GPUs, by GPU, group and name.
func (x *text) gpuCounters() {
	for _, r := range x.Query(`select gpu_id, g.name as grp, k.name, unit, description, k.id from gpu_counter_track k
		join (select distinct track_id, name from gpu_counter_group where name is not null) g on g.track_id = k.id order by gpu_id, grp, k.name`) {
		line := fmt.Sprintf("GPU %v %v counter %q (%v)", r["gpu_id"], r["grp"], r["name"], r["description"])
		if r["unit"] != nil {
			line += fmt.Sprintf(" in %v", r["unit"])
		}
		x.line(0, "%s: %s", line, x.samples(x.values[r["id"]]))
	}
}

func (x *text) samples(list []Row) string {
	var words []string
	for _, v := range list[:min(len(list), x.most)] {
		words = append(words, fmt.Sprintf("%v=%v", v["ts"], v["value"]))
	}
	if len(list) > x.most {
		words = append(words, fmt.Sprintf("and %d more", len(list)-x.most))
	}
	return strings.Join(words, " ")
}

func (x *text) sliceList(indent int, list []Row) {
	for _, s := range list[:min(len(list), x.most)] {
		line := fmt.Sprintf("%v +%v %v", s["ts"], s["dur"], s["name"])
		if s["category"] != nil {
			line += fmt.Sprintf(" [%v]", s["category"])
		}
		for _, more := range [][]string{x.args[s["arg_set_id"]], x.arrows[s["id"]]} {
			if len(more) > 0 {
				line += " " + strings.Join(more, " ")
			}
		}
		x.line(indent+int(s["depth"].(int64)), "%s", line)
	}
	if len(list) > x.most {
		x.line(indent, "and %d more", len(list)-x.most)
	}
}

// queues shows the queues of each GPU.
func (x *text) queues() {
	for _, g := range x.Query(`select gpu, name, arg_set_id from gpu order by gpu`) {
		x.line(0, "GPU %v %q %s", g["gpu"], fmt.Sprint(g["name"]), strings.Join(x.args[g["arg_set_id"]], " "))
		for _, q := range x.Query(fmt.Sprintf(`select id, name, extract_arg(source_arg_set_id, 'description') as description from gpu_track
			where type = 'gpu_render_stage' and extract_arg(dimension_arg_set_id, 'gpu') = %v order by lower(name), id`,
			g["gpu"])) {
			x.line(1, "queue %q: %v", fmt.Sprint(q["name"]), q["description"])
			x.sliceList(2, x.slices[q["id"]])
		}
	}
}

func number(s string) (n int64) {
	fmt.Sscan(s, &n)
	return n
}
