package stats

import (
	"github.com/cudatrace/cudatrace/convert/internal/occupancy"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A shapeOccupancy is the theoretical occupancy of a kernel's shape on a device.
type shapeOccupancy struct {
	shape *timeline.KernelShape
	on    *deviceRow
	share float64
	known bool
}

func occupancyOf(s *timeline.Shape) *shapeOccupancy { return &shapeOccupancy{shape: &s.Kernel} }

// weigh adds the occupancy of a launch of the shape to a mean. It is computed where the device is another one than that
// of the launch before.
func (o *shapeOccupancy) weigh(m *meanOccupancy, w *piece) {
	if o.on != w.on.device {
		o.on, o.known = w.on.device, false
		if o.on.rules != nil {
			var x occupancy.Occupancy
			x, o.known = o.on.rules.Of(o.shape)
			o.share = x.Share
		}
	}
	if o.known && !w.Untimed {
		m.sum += o.share * float64(w.Dur)
		m.time += float64(w.Dur)
	}
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

func (m *meanOccupancy) join(later *meanOccupancy) {
	m.sum, m.time = m.sum+later.sum, m.time+later.time
}

// mean is the mean, null if none is known.
func (m *meanOccupancy) mean() *float64 {
	if m.time == 0 {
		return nil
	}
	return new(m.sum / m.time)
}
