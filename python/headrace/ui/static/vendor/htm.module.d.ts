// Ours: what the page uses of htm, for the checker of types.
declare const htm: { bind(h: Function): (strings: TemplateStringsArray, ...values: any[]) => any };
export default htm;
