"""Makes the Python kernel describe matplotlib figures and pandas tables as data.

Loaded as an IPython extension. A display of a figure gets the media type CHART
and one of a table the media type DATA beside what they have anyway. What cannot
be described is left out: a cell never fails because of it.
"""
import datetime
import math

from IPython.core.formatters import BaseFormatter
from traitlets import ObjectName, Unicode

CHART = "application/vnd.sandbox.chart+json"
DATA = "application/vnd.sandbox.data+json"
MOST_POINTS = 20000  # of one chart, all elements together
MOST_ROWS = 1000


class ChartFormatter(BaseFormatter):
    format_type = Unicode(CHART)
    print_method = ObjectName("_repr_sandbox_chart_")
    _return_type = dict

    def pop(self, typ, default=None):
        """Keeps the printer. matplotlib's backend removes those of figures from
        all formatters before it adds its own."""
        return default


class DataFormatter(BaseFormatter):
    format_type = Unicode(DATA)
    print_method = ObjectName("_repr_sandbox_data_")
    _return_type = dict


def load_ipython_extension(shell):
    display = shell.display_formatter
    charts, data = ChartFormatter(parent=display), DataFormatter(parent=display)
    display.formatters[CHART] = charts
    display.formatters[DATA] = data
    charts.for_type_by_name("matplotlib.figure", "Figure", quiet(figure))
    data.for_type_by_name("pandas.core.frame", "DataFrame", quiet(table))


def quiet(describe):
    def safe(value):
        try:
            return describe(value)
        except Exception:
            return None

    return safe


def plain(value):
    """A value as JSON has it. Numbers that JSON lacks become null."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    return str(value)


def table(frame):
    head = frame.head(MOST_ROWS)
    return {
        "columns": [str(c) for c in head.columns],
        "index": [plain(v) for v in head.index],
        "data": {str(name): [plain(v) for v in head.iloc[:, i]] for i, name in enumerate(head.columns)},
        "rows": int(len(frame)),
    }


def figure(fig):
    charts = [c for c in (chart(axes) for axes in fig.get_axes()) if c]
    if not charts:
        return None
    if len(charts) == 1:
        return charts[0]
    title = fig._suptitle.get_text() if getattr(fig, "_suptitle", None) else ""
    return {"type": "superchart", "title": title, "elements": charts}


def chart(axes):
    base = {"title": axes.get_title()}
    for kind, elements in (("pie", pie), ("box_and_whisker", boxes), ("bar", bars)):
        found = elements(axes)
        if found:
            if kind != "pie":
                labels(base, axes)
            return dict(base, type=kind, elements=found)
    lines, points = curves(axes), scatters(axes)
    if not lines and not points:
        return dict(base, type="unknown", elements=[]) if axes.has_data() else None
    base["x_label"], base["y_label"] = axes.get_xlabel(), axes.get_ylabel()
    base["x_unit"], base["y_unit"] = unit(axes.get_xlabel()), unit(axes.get_ylabel())
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        base[name + "_ticks"] = [number(axis, v) for v in axis.get_ticklocs()]
        base[name + "_tick_labels"] = [t.get_text() for t in axis.get_ticklabels()]
        base[name + "_scale"] = scale(axis)
    return dict(base, type="line" if lines else "scatter", elements=lines + points if lines else points)


def labels(base, axes):
    base["x_label"], base["y_label"] = axes.get_xlabel(), axes.get_ylabel()
    base["x_unit"], base["y_unit"] = unit(axes.get_xlabel()), unit(axes.get_ylabel())


def unit(label):
    """The unit of a label such as "time (s)" or "size [MB]"; None without one."""
    label = label.strip()
    for opening, closing in ("()", "[]"):
        if label.endswith(closing) and opening in label:
            return label[label.rindex(opening) + 1 : -1]
    return None


def dates(axis):
    import matplotlib.dates

    return isinstance(axis.get_converter() if hasattr(axis, "get_converter") else axis.converter, (
        matplotlib.dates.DateConverter, matplotlib.dates._SwitchableDateConverter))


def scale(axis):
    if axis.get_scale() == "linear":
        if dates(axis):
            return "datetime"
        if type(axis.get_major_formatter()).__name__ == "StrCategoryFormatter":
            return "categorical"
    return axis.get_scale()


def number(axis, value):
    if dates(axis):
        import matplotlib.dates

        return matplotlib.dates.num2date(value).isoformat()
    return plain(value)


def value(axis, v):
    return plain(v) if isinstance(v, (datetime.date, str)) else number(axis, v)


def few(points):
    """All of the points, or every nth of too many."""
    step = max(1, -(-len(points) // MOST_POINTS))
    return points[::step]


def curves(axes):
    out = []
    for line in axes.get_lines():
        points = [[value(axes.xaxis, x), value(axes.yaxis, y)] for x, y in few(list(zip(line.get_xdata(), line.get_ydata())))]
        out.append({"label": line.get_label(), "points": points})
    return out


def scatters(axes):
    from matplotlib.collections import PathCollection

    out = []
    for c in axes.collections:
        if isinstance(c, PathCollection):
            points = [[number(axes.xaxis, x), number(axes.yaxis, y)] for x, y in few(c.get_offsets().tolist())]
            out.append({"label": c.get_label(), "points": points})
    return out


def bars(axes):
    """The bars by container. A group's label is that of its legend; a label of
    a bar is the text at its tick."""
    from matplotlib.container import BarContainer

    out = []
    for group in axes.containers:
        if not isinstance(group, BarContainer):
            continue
        across = group.orientation == "horizontal"
        axis = axes.yaxis if across else axes.xaxis
        ticks = {round(float(at), 6): t.get_text() for at, t in zip(axis.get_ticklocs(), axis.get_ticklabels())}
        for bar in group:
            middle = bar.get_y() + bar.get_height() / 2 if across else bar.get_x() + bar.get_width() / 2
            label = ticks.get(round(float(middle), 6)) or str(plain(middle))
            length = bar.get_width() if across else bar.get_height()
            out.append({"label": label, "group": group.get_label(), "value": plain(length)})
    return out[:MOST_POINTS]


def pie(axes):
    from matplotlib.patches import Wedge

    wedges = [p for p in axes.patches if isinstance(p, Wedge)]
    return [
        {"label": w.get_label(), "angle": plain(abs(w.theta2 - w.theta1)), "radius": plain(w.r)}
        for w in wedges
    ]


def boxes(axes):
    """Boxes as Axes.boxplot draws them with its defaults: for each a line or a
    patch of the box, two whiskers, two caps and the median, and points beyond."""
    from matplotlib.patches import PathPatch

    lines = list(axes.get_lines())
    shapes = [p.get_path().vertices for p in axes.patches if isinstance(p, PathPatch)]
    if not shapes:
        shapes = [l.get_xydata() for l in lines if len(l.get_xdata()) == 5]
        lines = [l for l in lines if len(l.get_xdata()) != 5]
    out = []
    flat = [l for l in lines if len(l.get_xdata()) == 2 and l.get_linestyle() != "None"]
    loose = [l for l in lines if l.get_linestyle() == "None"]
    for at, shape in enumerate(shapes):
        xs, ys = [float(v[0]) for v in shape[:4]], [float(v[1]) for v in shape[:4]]
        low, high, left, right = min(ys), max(ys), min(xs), max(xs)
        middle = (left + right) / 2
        inside = [l for l in flat if left <= min(l.get_xdata()) and max(l.get_xdata()) <= right]
        across = [l for l in inside if l.get_ydata()[0] == l.get_ydata()[1] and l.get_xdata()[0] != l.get_xdata()[1]]
        medians = [l for l in across if abs(max(l.get_xdata()) - right) < 1e-9 and abs(min(l.get_xdata()) - left) < 1e-9]
        caps = [l for l in across if l not in medians]
        if not medians or len(caps) != 2:
            return []
        ends = sorted(float(l.get_ydata()[0]) for l in caps)
        beyond = [plain(y) for l in loose for x, y in zip(l.get_xdata(), l.get_ydata()) if abs(x - middle) < 1e-9]
        ticks = {round(float(t), 6): l.get_text() for t, l in zip(axes.xaxis.get_ticklocs(), axes.xaxis.get_ticklabels())}
        out.append({
            "label": ticks.get(round(middle, 6)) or str(at + 1), "min": ends[0], "first_quartile": low,
            "median": float(medians[0].get_ydata()[0]), "third_quartile": high, "max": ends[1], "outliers": beyond,
        })
    return out
