package pfsink

import (
	"encoding/hex"
	"fmt"
	"math"

	"github.com/cudatrace/cudatrace/convert/internal/occupancy"
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
			ID: g.Index, Name: s.tracks.gpuName(g.Index), Vendor: "NVIDIA", Model: g.Name, UUID: uuid,
			Architecture: fmt.Sprintf("sm_%d%d", g.Major, g.Minor),
			Extra:        gpuFacts(&g),
		})
	}
	s.w.GPUs(list)
}

// occupancy says how a kernel's blocks fill the GPU, in theory: the share of the warps that a
// multiprocessor can hold, what bounds it, in how many waves the blocks run, and how much of the GPU
// is idle in the last one.
func (s *works) occupancy(index uint32, k *timeline.KernelShape) (args []perfetto.Arg) {
	g := s.gpus[index]
	if g == nil || !g.known {
		return nil
	}
	o, ok := g.device.Of(k)
	if !ok {
		return nil
	}
	args = append(args,
		perfetto.Uint("occupancy_percent", percent(o.Share)),
		perfetto.String("occupancy_limit", o.Limits.String()))
	if o.Waves > 0 {
		args = append(args,
			perfetto.Float("waves", math.Round(10000*o.Waves)/10000),
			perfetto.Uint("tail_idle_percent", percent(o.Tail)))
	}
	return args
}

// percent is a share in percent. A whole number takes the least room: a packet of more than 258 bytes
// compresses worse.
func percent(share float64) uint64 { return uint64(math.Round(100 * share)) }
