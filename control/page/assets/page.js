// The page shows what the router sends once a second by /events.
"use strict";

const id = (name) => document.getElementById(name);

function element(name, className, text) {
	const e = document.createElement(name);
	if (className) e.className = className;
	if (text !== undefined) e.textContent = text;
	return e;
}

// table fills a table: columns are [title, value, class], where value returns text for a row.
function table(target, rows, columns, empty) {
	if (rows.length === 0) {
		target.replaceChildren(element("caption", "empty", empty));
		return;
	}
	const head = element("tr"), body = element("tbody");
	for (const [title, , className] of columns) head.append(element("th", className === "number" ? className : "", title));
	for (const row of rows) {
		const line = element("tr");
		for (const [, value, className] of columns) {
			line.append(element("td", typeof className === "function" ? className(row) : className, value(row)));
		}
		body.append(line);
	}
	const thead = element("thead");
	thead.append(head);
	target.replaceChildren(thead, body);
}

const pps = (v) => si(v, "pps"), bits = (v) => si(v, "bit/s"), percent = (v) => Math.round(100 * v) + " %", count = (v) => v.toLocaleString("en");

const charts = {
	packets: new Chart(id("chart-packets"), "Packets received and transmitted", pps),
	bits: new Chart(id("chart-bits"), "Bits received and transmitted", bits),
	latency: new Chart(id("chart-latency"), "Latency of chunks, 99th percentile by stage", duration),
	load: new Chart(id("chart-load"), "Load of workers", percent, 1),
};

// topology draws the router between its ports.
function topology(ports, neighbors) {
	const row = 54, half = Math.ceil(ports.length / 2), height = Math.max(1, half) * row + 10;
	const picture = svg("svg", { viewBox: `0 0 720 ${height}`, role: "img", "aria-label": "The router and its ports" });
	picture.append(svg("rect", { class: "box", x: 275, y: 5, width: 170, height: height - 10, rx: 6 }));
	picture.append(svg("text", { class: "name", x: 360, y: height / 2, "text-anchor": "middle" }, "router"));
	picture.append(svg("text", { x: 360, y: height / 2 + 16, "text-anchor": "middle" }, neighbors));
	ports.forEach((p, i) => {
		const left = i < half, y = 5 + (left ? i : i - half) * row, x = left ? 10 : 530;
		picture.append(svg("line", { class: p.up ? "up" : "down", "stroke-width": 2, x1: left ? 190 : 445, x2: left ? 275 : 530, y1: y + 22, y2: y + 22 }));
		picture.append(svg("rect", { class: "box", x, y, width: 180, height: 44, rx: 6 }));
		picture.append(svg("text", { class: "name", x: x + 10, y: y + 18 }, p.name));
		picture.append(svg("text", { x: x + 10, y: y + 35 }, p.up ? `in ${pps(p.rx_packets)}, out ${pps(p.tx_packets)}` : "down"));
	});
	id("topology").replaceChildren(picture);
}

function drops(list) {
	const target = id("list-drops"), open = new Set([...target.querySelectorAll("details[open]")].map((e) => e.dataset.key));
	if (list.length === 0) {
		target.replaceChildren(element("p", "empty", "No packet was dropped since the start."));
		return;
	}
	target.replaceChildren(...list.map((d) => {
		const entry = element("details", "drop"), head = element("summary");
		entry.dataset.key = d.reason + " " + d.port;
		entry.open = open.has(entry.dataset.key);
		head.append(element("b", "", d.reason), element("span", "", `port ${d.port}`), element("span", "", `${count(d.packets)} packets`));
		entry.append(head, element("p", "", d.description), element("p", "", "To fix: " + d.hint));
		return entry;
	}));
}

function show(m) {
	const top = m.top, rates = {}, bitRates = {}, stages = {}, load = {};
	for (const p of top.ports) {
		rates[p.name + " in"] = p.rx_packets;
		rates[p.name + " out"] = p.tx_packets;
		bitRates[p.name + " in"] = p.rx_bits;
		bitRates[p.name + " out"] = p.tx_bits;
	}
	for (const l of top.latency) stages[l.stage] = l.p99_ns;
	top.load.forEach((v, i) => { load["worker " + i] = v; });
	// Of many ports and workers, those with the highest rates are legible.
	const busiest = (values, n) => Object.fromEntries(Object.entries(values).sort((a, b) => b[1] - a[1]).slice(0, n).sort((a, b) => a[0] < b[0] ? -1 : 1));
	charts.packets.add(busiest(rates, 8));
	charts.bits.add(busiest(bitRates, 8));
	charts.latency.add(stages);
	charts.load.add(busiest(load, 8));

	document.title = m.host + " – warproute";
	id("router").textContent = m.host;
	id("summary").textContent = `engine ${top.engine}: ${top.description}`;
	id("build").textContent = `warproute ${m.version}`;
	topology(top.ports, `${count(m.routes_ipv4)} + ${count(m.routes_ipv6)} routes`);

	const rate = new Map(top.ports.map((p) => [p.name, p]));
	table(id("table-ports"), m.ports, [
		["Port", (p) => p.name],
		["State", (p) => p.up ? "up" : "down", (p) => p ? (p.up ? "up-text" : "down-text") : ""],
		["Mode", (p) => p.mode],
		["MTU", (p) => p.mtu, "number"],
		["In", (p) => pps(rate.get(p.name)?.rx_packets ?? 0), "number"],
		["Out", (p) => pps(rate.get(p.name)?.tx_packets ?? 0), "number"],
		["Dropped", (p) => count(p.dropped_packets), "number"],
		["Lost before the router", (p) => pps(rate.get(p.name)?.lost_packets ?? 0), "number"],
	], "No port.");
	table(id("table-latency"), top.latency, [
		["Stage", (l) => l.stage], ["p50", (l) => duration(l.p50_ns), "number"], ["p99", (l) => duration(l.p99_ns), "number"],
	], "No chunk in the last second.");
	drops(m.drops);
	table(id("table-lanes"), m.lanes, [
		["Lane", (l) => l.name], ["Deadline", (l) => l.deadline_ns ? duration(l.deadline_ns) : "none", "number"], ["Packets", (l) => count(l.packets), "number"],
		["Late", (l) => count(l.missed_packets), "number"], ["Queued", (l) => count(l.queued_packets), "number"], ["p99", (l) => duration(l.p99_ns), "number"],
	], "No lane.");
	table(id("table-sas"), m.sas, [
		["SA", (s) => s.name], ["Direction", (s) => s.direction], ["SPI", (s) => "0x" + s.spi.toString(16)], ["Peers", (s) => `${s.src} → ${s.dst}`],
		["Suite", (s) => s.suite], ["Packets", (s) => count(s.packets), "number"], ["Replays", (s) => count(s.replays), "number"],
		["ICV failures", (s) => count(s.icv_failures), "number"], ["State", (s) => s.state, (s) => s && s.state !== "live" ? "down-text" : ""],
	], m.gateway ? "No SA." : "This router is not an IPsec gateway.");
	const e = m.engine, facts = [["Engine", `${e.name}: ${e.description}`], ["Workers", `${e.workers}, on cores ${e.cores.join(", ")}`], ["Chunks", `${count(e.chunks)} of ${e.packets_per_chunk.toFixed(1)} packets`],
		["Configuration", "loaded " + new Date(e.config_loaded).toLocaleString()]];
	id("list-engine").replaceChildren(...facts.flatMap(([k, v]) => [element("dt", "", k), element("dd", "", v)]));
	table(id("table-gpus"), e.devices ?? [], [
		["GPU", (d) => `${d.number}: ${d.name}`], ["Sharing", (d) => d.sharing], ["Multiprocessors", (d) => d.multiprocessors, "number"], ["Blocks awake", (d) => `${d.awake} of ${d.blocks}`, "number"],
		["Kernel", (d) => d.parked ? "parked" : "running"], ["Chunks", (d) => count(d.chunks), "number"], ["By the CPU", (d) => count(d.chunks_sooner + d.chunks_by_cpu), "number"],
	], "No GPU in use.");
}

const link = id("link"), events = new EventSource("events");
function state(text, className) {
	link.textContent = text;
	link.className = className;
}
events.onmessage = (e) => {
	show(JSON.parse(e.data));
	state("live", "live");
};
events.onerror = () => state("no answer, trying again", "lost");
