package gpumetrics

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cudatrace/cudatrace/record/invoker"
)

// A GPUList is the metrics of PM sampling that a GPU has. Further GPUs of its type have the same.
type GPUList struct {
	UUID    string
	Metrics []ListedMetric
}

// A ListedMetric is a metric that a GPU has.
type ListedMetric struct {
	Name   string
	Passes int // that it needs alone; sampled are metrics that need one. 0: it cannot be sampled
}

// maxListed bounds what is taken from the process that lists.
const maxListed = 1 << 16

// List asks CUPTI for the metrics of this machine's GPUs. as and libraries are those of Options.
func List(as *invoker.Invoker, libraries []string) ([]GPUList, error) {
	return list(Options{As: as, PM: &PM{Libraries: libraries}})
}

func list(o Options) ([]GPUList, error) {
	o.complete()
	p := newProcess("list", strings.Join(o.libraries(), ":"))
	p.environ = []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID"}
	conn, cmd, err := p.launch(o)
	if err != nil {
		return nil, err
	}
	p.conn, p.cmd = conn, cmd
	defer p.remove()
	l := lister{options: o, gpus: map[uint32]*GPUList{}}
	if err := p.receive(conn, l.takeListed); err != nil {
		return nil, fmt.Errorf("the sampler of GPU metrics has failed (%w)", err)
	}
	return l.result()
}

// A lister collects what a process lists.
type lister struct {
	options Options
	uuids   []string
	gpus    map[uint32]*GPUList // the first of each type
	order   []uint32
	why     string // the failure
	count   int
}

func (l *lister) takeListed(message any) (last bool, err error) {
	if l.count++; l.count > maxListed {
		return false, errors.New("it lists too much")
	}
	switch m := message.(type) {
	case failure:
		l.why = l.options.remedy(m.why, m.text)
		return true, nil
	case refused:
		l.why = l.options.remedy(m.why, m.text)
	case device:
		l.uuids = append(l.uuids, m.uuid)
	case listed:
		if l.gpus[m.device] == nil {
			l.gpus[m.device] = &GPUList{}
			l.order = append(l.order, m.device)
		}
		g := l.gpus[m.device]
		g.Metrics = append(g.Metrics, ListedMetric{m.name, int(m.passes)})
	case done:
		return true, nil
	}
	return false, nil
}

func (l *lister) result() (lists []GPUList, err error) {
	if len(l.order) == 0 {
		return nil, errors.New(l.whyNothing())
	}
	for _, device := range l.order {
		if int(device) < len(l.uuids) {
			l.gpus[device].UUID = l.uuids[device]
		}
		lists = append(lists, *l.gpus[device])
	}
	return lists, nil
}

func (l *lister) whyNothing() string {
	if l.why == "" {
		return "CUDA has no GPU here"
	}
	return l.why
}
