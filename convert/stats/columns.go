package stats

import "github.com/cudatrace/cudatrace/convert/stats/table"

// name is the first column of a report.
func name(title string) table.Column { return table.Column{Key: "name", Title: title} }

// count is a column of numbers.
func count(key, title string, rank int) table.Column {
	return table.Column{Key: key, Title: title, Unit: table.Number, Rank: rank}
}

// id is a column of numbers that name something.
func id(key, title string, rank int) table.Column {
	return table.Column{Key: key, Title: title, Unit: table.ID, Rank: rank}
}

// duration is a column of durations.
func duration(key, title string, rank int) table.Column {
	return table.Column{Key: key, Title: title, Unit: table.Duration, Rank: rank}
}

// column is any other column.
func column(key, title string, unit table.Unit, rank int) table.Column {
	return table.Column{Key: key, Title: title, Unit: unit, Rank: rank}
}

// totals are the columns of the count, the total duration and the share.
func totals() []table.Column {
	return []table.Column{count("count", "count", 1), duration("total_ns", "total", 1), column("share", "share", table.Share, 2)}
}

// spread are the columns of how durations differ.
func spread() []table.Column {
	return append([]table.Column{
		duration("min_ns", "min", 7), duration("median_ns", "median", 3), duration("mean_ns", "mean", 6),
		duration("p95_ns", "p95", 5), duration("p99_ns", "p99", 8), duration("max_ns", "max", 4),
		duration("stddev_ns", "", 0),
	}, medianInterval()...)
}

// medianInterval are the columns of how sure the median is.
func medianInterval() []table.Column {
	return []table.Column{duration("median_low_ns", "", 0), duration("median_high_ns", "", 0)}
}
