package activity

// A Seen is time of which it is known what code ran, or what blocked a thread.
type Seen struct {
	Time   uint64
	Weight float64 // see Spent
}

// Divide divides a time of which that is not known among what was seen: short times are seen by chance, the oftener the longer they are.
// It returns the part of each. No more than twice what was seen is divided.
func Divide(unknown uint64, seen []Seen) []uint64 {
	parts, weight, all := make([]uint64, len(seen)), 0.0, 0.0
	for _, s := range seen {
		weight += s.Weight
		all += float64(s.Time) + s.Weight
	}
	if weight <= 0 {
		return parts
	}
	divided, left, most := min(float64(unknown), 2*all), unknown, 0
	for i, s := range seen {
		parts[i] = min(uint64(divided*s.Weight/weight), left)
		left -= parts[i]
		if s.Weight > seen[most].Weight {
			most = i
		}
	}
	if left < 1000 { // what rounding leaves
		parts[most] += left
	}
	return parts
}
