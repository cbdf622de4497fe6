package pfsink

import (
	"encoding/hex"
	"fmt"
	"math"

	"github.com/cudatrace/cudatrace/convert/occupancy"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
)

// A gpu is a GPU with what its kernels' occupancy follows from.
type gpu struct {
	timeline.GPU
	device occupancy.Device
	known  bool // device is
}

// gpus describes the GPUs.
func (s *Sink) gpus(gpus []timeline.GPU) {
	list := make([]perfetto.GPU, 0, len(gpus))
	for _, g := range gpus {
		device, known := occupancy.Of(&g)
		s.works.gpus[g.Index] = &gpu{g, device, known}
		uuid, err := hex.DecodeString(g.UUID)
		if err != nil {
			uuid = nil // UUID not known: leave the field out
		}
		list = append(list, perfetto.GPU{
			ID: g.Index, Name: g.Name, Vendor: "NVIDIA", Model: g.Name, UUID: uuid,
			Architecture: fmt.Sprintf("sm_%d%d", g.Major, g.Minor),
			Extra:        gpuFacts(&g),
		})
	}
	s.w.GPUs(list)
}

// occupancy adds how a kernel's blocks fill the GPU, in theory: the share of the warps that a
// multiprocessor can hold, what bounds it, in how many waves the blocks run, and how much of the GPU
// is idle in the last one.
func (s *works) occupancy(index uint32, k *timeline.KernelShape) {
	g := s.gpus[index]
	if g == nil || !g.known {
		return
	}
	o, ok := g.device.Of(k)
	if !ok {
		return
	}
	s.args = append(s.args,
		perfetto.Float("occupancy_percent", percent(o.Share)),
		perfetto.String("occupancy_limit", o.Limits.String()))
	if o.Waves > 0 {
		s.args = append(s.args,
			perfetto.Float("waves", math.Round(10000*o.Waves)/10000),
			perfetto.Float("tail_idle_percent", percent(o.Tail)))
	}
}

// percent is a share in percent, with one digit behind the point.
func percent(share float64) float64 { return math.Round(1000*share) / 10 }
