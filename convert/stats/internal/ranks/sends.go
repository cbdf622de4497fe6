package ranks

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// A sent is the kernels of a run that send and receive messages of one label. Which of them belong together, nothing
// tells: they count, and are not compared.
type sent struct {
	sum
	on Set
}

// sends are the kernels of all ranks that send and receive.
type sends map[sentKey]*sent

type sentKey struct {
	run   string
	label uint32
}

// send takes a kernel that sends and receives.
func (c *Collector) send(s *timeline.Stream, w *timeline.Work) {
	p := c.Process(s.Context.Process)
	key := sentKey{p.Run, c.labels.of(w.Shape.Kernel.Name, w.NCCL, communicatorOf(w.NCCL), c.names)}
	x := c.sent[key]
	if x == nil {
		x = new(sent)
		c.sent[key] = x
	}
	x.count, x.time = x.count+1, sketch.Sum(x.time, w.Dur)
	x.on.Add(p)
}

// sends count the kernels that send and receive by the sizes of their messages.
func (s sizes) sends(c *Collector) {
	for key, x := range c.sent {
		of := c.labels.all[key.label].message
		k := c.labels.key(of, 0)
		k.sends = true
		s.of(k).countMessages(of, x.count)
	}
}

// A sender is the ranks of a run that send and receive on a communicator.
type sender struct {
	run string
	use
}

// rows are rows of the kernels that send and receive, for the table of collectives. What is compared there is nil.
func (s sends) rows(names *labels, sorted []*RankProcess) (rows []collectiveCells) {
	all := make(map[sender]*sent)
	for key, x := range s {
		k := sender{key.run, names.all[key.label].use()}
		if all[k] == nil {
			all[k] = new(sent)
		}
		of := all[k]
		of.count, of.time = of.count+x.count, sketch.Sum(of.time, x.time)
		of.on.join(&x.on)
	}
	order := slices.SortedFunc(maps.Keys(all), func(a, b sender) int {
		return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.kernel, b.kernel), cmp.Compare(a.communicator, b.communicator))
	})
	for _, k := range order {
		x := all[k]
		r := collectiveCells{Name: names.list[k.kernel].title, Count: x.count, Total: x.time}
		if k.communicator != 0 {
			r.Communicator = hashText(k.communicator)
		}
		var numbers []uint32
		for _, p := range sorted {
			if !x.on.Has(p) {
				continue
			}
			if r.Members++; p.Rank.Known {
				numbers = append(numbers, p.Rank.Number)
			}
		}
		r.Ranks = ranks.Words(numbers)
		rows = append(rows, r)
	}
	return rows
}

// note says what the rows of sends and receives are, "" without any.
func (s sends) note() string {
	n := uint64(0)
	for _, x := range s {
		n += x.count
	}
	if n == 0 {
		return ""
	}
	return figures.Count(n, "kernel that sends and receives is", "kernels that send and receive are") +
		" counted on each rank, and not compared: nothing tells which belong together"
}
