// Line charts of the last two minutes, as inline SVG.
"use strict";

const points = 120; // seconds in a chart
const svgSpace = "http://www.w3.org/2000/svg";

function svg(name, attributes, text) {
	const e = document.createElementNS(svgSpace, name);
	for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
	if (text !== undefined) e.textContent = text;
	return e;
}

// si formats a number with three digits and a decimal prefix.
function si(v, unit) {
	let prefix = "";
	for (const p of ["k", "M", "G", "T"]) {
		if (Math.abs(v) < 999.5) break;
		v /= 1000;
		prefix = p;
	}
	const digits = prefix === "" || Math.abs(v) >= 99.95 || Number.isInteger(v) ? 0 : Math.abs(v) >= 9.995 ? 1 : 2;
	return v.toFixed(digits) + (prefix || unit ? " " : "") + prefix + unit;
}

// duration formats nanoseconds.
function duration(ns) {
	for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
		if (ns >= size) return (ns / size).toPrecision(3) + " " + unit;
	}
	return ns.toFixed(0) + " ns";
}

// Chart draws series of numbers, one per second, below a title. format writes a value; top, if given, is the
// upper end of the axis.
class Chart {
	constructor(figure, title, format, top) {
		this.figure = figure;
		this.format = format;
		this.top = top;
		this.series = new Map(); // by name: the latest values, null where missing
		figure.append(Object.assign(document.createElement("figcaption"), { textContent: title }));
		this.svg = svg("svg", { viewBox: "0 0 440 150", role: "img", "aria-label": title });
		this.legend = document.createElement("div");
		this.legend.className = "legend";
		figure.append(this.svg, this.legend);
	}

	// add appends one value of each series: an object of numbers by name.
	add(values) {
		for (const name of Object.keys(values)) {
			if (!this.series.has(name)) this.series.set(name, []);
		}
		for (const [name, list] of this.series) {
			list.push(values[name] ?? null);
			if (list.length > points) list.shift();
			if (list.every((v) => v === null)) this.series.delete(name);
		}
		this.draw();
	}

	draw() {
		const left = 64, width = 440 - left - 6, height = 120, base = 130;
		let max = 0;
		for (const list of this.series.values()) for (const v of list) max = Math.max(max, v ?? 0);
		const top = this.top ?? niceTop(max);
		this.svg.replaceChildren();
		for (const share of [0, 0.5, 1]) {
			const y = base - share * height;
			this.svg.append(svg("line", { class: "grid", x1: left, x2: left + width, y1: y, y2: y }));
			this.svg.append(svg("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, this.format(share * top)));
		}
		this.svg.append(svg("text", { x: left, y: 147 }, "2 minutes ago"), svg("text", { x: left + width, y: 147, "text-anchor": "end" }, "now"));
		this.legend.replaceChildren();
		let i = 0;
		for (const [name, list] of this.series) {
			const color = `var(--s${i++ % 8})`;
			let path = "", pen = "M";
			list.forEach((v, at) => {
				if (v === null) {
					pen = "M";
					return;
				}
				const x = left + width * (points - list.length + at) / (points - 1);
				path += `${pen}${x.toFixed(1)} ${(base - height * Math.min(1, v / top)).toFixed(1)}`;
				pen = "L";
			});
			const line = svg("path", { d: path, fill: "none", "stroke-width": 1.8, "stroke-linejoin": "round", "stroke-linecap": "round" });
			line.style.stroke = color;
			this.svg.append(line);
			const entry = document.createElement("span"), key = document.createElement("i"), value = document.createElement("b");
			key.className = "key";
			key.style.background = color;
			value.textContent = list.at(-1) === null ? "" : this.format(list.at(-1));
			entry.append(key, name + " ", value);
			this.legend.append(entry);
		}
	}
}

// niceTop returns the end of an axis: 1, 2 or 5 times a power of ten.
function niceTop(max) {
	if (!(max > 0)) return 1;
	const power = 10 ** Math.floor(Math.log10(max));
	for (const step of [1, 2, 5, 10]) if (max <= step * power) return step * power;
	return 10 * power;
}
