// @ts-check
// A storage to be moved: type, volumes, size, IOPS and MiB/s, written in the notation of the command line.
import { html, steady } from "./html.js";
import { Box, Slider } from "./controls.js";

// What each type lets one buy, and the span that the sliders cover; the server has the limits of the day and refuses by name.
/** @type {Record<string, {size: [number, number], iops?: [number, number], mib_s?: [number, number]}>} */
const TYPES = {
  gp3: { size: [1, 16384], iops: [3000, 80000], mib_s: [125, 2000] }, gp2: { size: [1, 16384] }, io2: { size: [4, 16384], iops: [100, 256000] },
  io1: { size: [4, 16384], iops: [100, 64000] }, st1: { size: [125, 16384] }, sc1: { size: [125, 16384] },
};
// TYPE:SIZE[:IOPS[:MIB_S]] with a number of volumes in front: what the sliders can write.
const NOTATION = /^(?:(\d+)x)?([a-z0-9]+):(\d+)(?::(\d*))?(?::(\d+))?$/;

/** @param {string} text */
export function readStorage(text) {
  const parts = NOTATION.exec(text);
  return parts && parts[2] in TYPES ? { volumes: Number(parts[1] ?? 1), type: parts[2], size: Number(parts[3]), iops: Number(parts[4] || 0), mib_s: Number(parts[5] ?? 0) } : null;
}

/** @param {{volumes: number, type: string, size: number, iops: number, mib_s: number}} parts */
export function writeStorage({ volumes, type, size, iops, mib_s }) {
  const about = TYPES[type], count = volumes > 1 ? `${volumes}x` : "";
  const bought = about.iops && (iops || (about.mib_s && mib_s)) ? `:${iops || about.iops[0]}${about.mib_s && mib_s ? `:${mib_s}` : ""}` : "";
  return `${count}${type}:${size}${bought || (type[0] === "i" ? `:${about.iops?.[0]}` : "")}`;
}

/** A storage in a reader's words: gp3 of 155 GiB with 4,500 IOPS; what no slider writes stays in its notation. @param {string} storage */
export function wordsOf(storage) {
  const parts = readStorage(storage);
  if (!parts) return storage;
  const extra = [parts.iops && `${parts.iops.toLocaleString("en")} IOPS`, parts.mib_s && `${parts.mib_s.toLocaleString("en")} MiB/s`].filter(Boolean).join(" and ");
  const member = `${parts.type} of ${parts.size.toLocaleString("en")} GiB${extra ? ` with ${extra}` : ""}`;
  return parts.volumes > 1 ? `RAID 0 of ${parts.volumes} x ${member}` : member;
}

export const StorageControl = steady((/** @type {{storage: string, legend?: string, onMove: (storage: string) => void, onRest: () => void}} */ { storage, legend = "Storage", onMove, onRest }) => {
  const parts = readStorage(storage) ?? { volumes: 1, type: "gp3", size: 500, iops: 0, mib_s: 0 };
  const about = TYPES[parts.type];
  const put = (/** @type {object} */ change) => onMove(writeStorage({ ...parts, ...change }));
  return html`<fieldset class="storage"><legend>${legend}</legend>
    <label class="field text"><span class="name">Notation</span><${Box} type="text" spellcheck=${false} value=${storage} onSet=${(/** @type {string} */ text) => { onMove(text.trim()); onRest(); }} /></label>
    <label class="field"><span class="name">Type</span><select value=${parts.type} onChange=${(/** @type {any} */ event) => { put({ type: event.target.value, iops: 0, mib_s: 0 }); onRest(); }}>
      ${Object.keys(TYPES).map(name => html`<option value=${name}>${name}</option>`)}</select></label>
    <${Slider} label="Size" value=${parts.size} usual="" unit="GiB" from=${Math.max(about.size[0], 10)} to=${about.size[1]} whole onMove=${(/** @type {number} */ size) => put({ size })} onRest=${onRest} />
    ${about.iops && html`<${Slider} label="IOPS" value=${parts.iops || about.iops[0]} usual="" unit="" from=${about.iops[0]} to=${about.iops[1]} whole onMove=${(/** @type {number} */ iops) => put({ iops })} onRest=${onRest} />`}
    ${about.mib_s && html`<${Slider} label="Throughput" value=${parts.mib_s || about.mib_s[0]} usual="" unit="MiB/s" from=${about.mib_s[0]} to=${about.mib_s[1]} whole onMove=${(/** @type {number} */ mib_s) => put({ mib_s })} onRest=${onRest} />`}
    <${Slider} label="Volumes, RAID 0" value=${parts.volumes} usual="" unit="" from=${1} to=${16} whole onMove=${(/** @type {number} */ volumes) => put({ volumes })} onRest=${onRest} /></fieldset>`;
});
