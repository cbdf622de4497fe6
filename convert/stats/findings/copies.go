package findings

import (
	"fmt"

	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/record/figures"
)

func (r *report) pageable() {
	t := r.process.pageable.since(r.steady.From)
	e := total(t)
	if !r.worth(e, 1) {
		return
	}
	text := fmt.Sprintf("the calls take %s for %s: %s", figures.Duration(e.cost), figures.Bytes(e.bytes), parts(t, 3))
	if e.async > 0 {
		text += "; " + figures.Count(e.async, "copy was", "copies were") +
			" made by Async functions, which cannot be asynchronous with pageable memory"
	}
	text += r.atLines(&r.process.lines.pageable, "; made at ", e.count)
	r.add("pageable_copies", e, Finding{Without: func(x *critical.Without) { x.Pageable(r.collector.PinnedRate) },
		Title: figures.Count(e.count, "large copy", "large copies") + " of pageable memory" +
			r.atLine(&r.process.lines.pageable, e), Evidence: text,
		Try: "allocate the host memory with cudaMallocHost and copy with cudaMemcpyAsync (PyTorch: pin_memory=True, " +
			"non_blocking=True)"})
}

func (r *report) smallCopies() {
	t := r.process.small.since(r.steady.From)
	e := total(t)
	if e.count < LeastRepeats {
		return
	}
	r.add("small_copies", e, Finding{Without: (*critical.Without).SmallCopies, Title: figures.Count(e.count, "small copy",
		"small copies") + " that could be part of another" + r.atLine(&r.process.lines.small, e),
		Evidence: fmt.Sprintf("%s copies of at most %s follow each other %s, with %s in all; the calls of all but the "+
			"first copy: %s",
			figures.Group(e.count+e.runs), figures.Bytes(uint64(critical.SmallCopy)), figures.Count(e.runs, "time", "times"),
			figures.Bytes(e.bytes), parts(t, 3)) + r.atLines(&r.process.lines.small, "; made at ", e.count),
		Try: "put the data into one buffer and copy it at once, or use cudaMemcpyBatchAsync"})
}

func (r *report) sets() {
	t := r.process.sets.since(r.steady.From)
	if e := total(t); r.worth(e, LeastRepeats) {
		r.add("synchronous_sets", e, Finding{Without: (*critical.Without).Sets,
			Title: figures.Count(e.count, "synchronous memory set", "synchronous memory sets") +
				r.atLine(&r.process.lines.sets, e),
			Evidence: "the calls: " + parts(t, 3) + r.atLines(&r.process.lines.sets, "; made at ", e.count),
			Try:      "use the Async function (cudaMemsetAsync) on the stream whose work follows"})
	}
}
