package stats

import (
	"github.com/cudatrace/cudatrace/convert/internal/occupancy"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A shapeOccupancy is the theoretical occupancy of a kernel's shape on a device.
type shapeOccupancy struct {
	on    *deviceRow
	share float64
	known bool
}

// of returns the occupancy of launches of a shape on a device. It computes it where the device is
// another one than that of the launch before.
func (o *shapeOccupancy) of(on *deviceRow, k *timeline.KernelShape) (share float64, known bool) {
	if o.on != on {
		o.on, o.known = on, false
		if on.rules != nil {
			var x occupancy.Occupancy
			x, o.known = on.rules.Of(k)
			o.share = x.Share
		}
	}
	return o.share, o.known
}

// rulesOf returns the rules of a GPU, nil if they are not known.
func rulesOf(g timeline.GPU) *occupancy.Device {
	if d, ok := occupancy.Of(&g); ok {
		return &d
	}
	return nil
}

// A meanOccupancy is the mean of occupancies, weighted with the time of the kernels.
type meanOccupancy struct{ sum, time float64 }

func (m *meanOccupancy) weigh(share float64, ns uint64) {
	m.sum += share * float64(ns)
	m.time += float64(ns)
}

// mean is the mean, null if none is known.
func (m *meanOccupancy) mean() *float64 {
	if m.time == 0 {
		return nil
	}
	return new(m.sum / m.time)
}
