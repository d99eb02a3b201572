"use strict";
// What is packed in the page, or in the folder beside it. Other scripts call, at any time:
//   assayData.catalogue() -> Promise of the catalogue (evals/reporting/journey/catalogue.py), null: there is none.
//   assayData.scores(metric, cell) -> Promise of a Float64Array: by question, in the order of
//     `catalogue.questions.id`, the mean over the cell's replicates that have a value; NaN where none has.
//     The values are those that are stored, to the last bit. metric: its name; cell: its key.
//   assayData.why(metric, cell, question) -> Promise of [replicate, status, reason] of what has no value.
//   assayData.block(question) -> Promise of the block that a question is in (evals/reporting/journey/blocks.py),
//     question: its place; rejected with a sentence where the folder is not there, or is another one.
// Nothing that is packed is ever run, and nothing is unpacked before it is asked for.
const assayData = (() => {
  const unpacked = async (text) => {
    const bytes = Uint8Array.from(atob(text.trim()), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).arrayBuffer();
  };
  const json = (buffer) => JSON.parse(new TextDecoder().decode(buffer));
  const inPage = (name) => document.getElementById(`pack-${name}`)?.textContent;
  const kept = new Map();
  const once = (name, found) => {
    if (!kept.has(name)) {
      kept.set(name, found());
      kept.get(name).catch(() => kept.delete(name)); // what could not be read is tried again when it is asked for
    }
    return kept.get(name);
  };

  const catalogue = () => once("catalogue", async () => {
    const text = inPage("catalogue");
    return text === undefined ? null : json(await unpacked(text));
  });

  const metricPack = (metric) => once(`metric ${metric}`, async () => {
    const { scores, runs } = await catalogue();
    if (!(metric in scores)) return null;
    const buffer = await unpacked(inPage(scores[metric]));
    const head = new DataView(buffer).getUint32(0, true);
    const header = json(new Uint8Array(buffer, 4, head));
    const start = 4 + head;
    let values = new Float64Array(header.n);
    if (header.different === undefined) values = new Float64Array(buffer, start, header.n);
    else {
      const different = new Float64Array(buffer, start, header.different);
      const places = new Uint16Array(buffer, start + 8 * header.different, header.n);
      for (let at = 0; at < header.n; at += 1) values[at] = places[at] ? different[places[at] - 1] : NaN;
    }
    return { values, header, missing: new Map(header.missing.map((at, row) => [at, header.why[header.of[row]]])), runs };
  });

  const runsOf = (cells, runs, key) => {
    const cell = cells.findIndex((one) => one.key === key);
    return runs.flatMap(([of, replicate], run) => (of === cell ? [[run, replicate]] : []));
  };

  const scores = async (metric, cell) => {
    const { cells, runs, questions } = await catalogue();
    const pack = await metricPack(metric);
    const count = questions.id.length;
    const found = new Float64Array(count).fill(NaN);
    const own = runsOf(cells, runs, cell);
    if (pack) {
      for (let question = 0; question < count; question += 1) {
        const values = own.map(([run]) => pack.values[run * count + question]).filter((value) => !Number.isNaN(value));
        if (values.length) found[question] = values.reduce((sum, value) => sum + value, 0) / values.length;
      }
    }
    return found;
  };

  const why = async (metric, cell, question) => {
    const { cells, runs, questions } = await catalogue();
    const pack = await metricPack(metric);
    if (!pack) return [];
    return runsOf(cells, runs, cell).flatMap(([run, replicate]) => {
      const reason = pack.missing.get(run * questions.id.length + question);
      return reason ? [[replicate, ...reason]] : [];
    });
  };

  const sha256 = async (text) => {
    const sum = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
    return [...new Uint8Array(sum)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  };

  // A page from disk may read no file, but show one in a frame: that can do nothing but hand over its text.
  const beside = (folder, name, sum) => new Promise((found, failed) => {
    const path = `${encodeURIComponent(folder)}/${name}.html`;
    const gone = () => failed(new Error(
      `The details lie in the folder “${folder}”, which belongs beside this file, and could not be read there. ` +
      "Put it there, or write the report again with `assay report`."));
    const frame = document.createElement("iframe");
    frame.hidden = true;
    frame.sandbox = "allow-scripts";
    frame.src = path;
    frame.tabIndex = -1;
    let timer = 0;
    const end = () => {
      clearTimeout(timer);
      removeEventListener("message", said);
      frame.remove();
    };
    const said = async ({ source, data }) => {
      if (source !== frame.contentWindow || typeof data !== "string") return;
      end();
      const right = globalThis.crypto?.subtle ? (await sha256(data)) === sum : true;
      if (right) found(data);
      else gone();
    };
    addEventListener("message", said);
    frame.addEventListener("load", () => { timer = setTimeout(() => { end(); gone(); }, 1500); });
    document.body.append(frame);
  });

  const block = async (question) => {
    const { blocks, inside, perBlock } = await catalogue();
    const at = Math.floor(question / perBlock);
    const name = `block-${at}`;
    return once(name, async () => {
      const { folder } = document.querySelector("#journey .journey").dataset;
      const { stem } = document.body.dataset;
      const text = inside ? inPage(name) : await beside(`${stem}.data-${folder}`, name, blocks[at]);
      return json(await unpacked(text));
    });
  };

  return { catalogue, scores, why, block };
})();
